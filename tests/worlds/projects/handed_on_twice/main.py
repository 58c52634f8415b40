import acme_engine
import pkg.use

print("s1", acme_engine.run(**{"device": pkg.use.where_is()}))
