from package.base import Base


class Model(Base):
    """A model that keeps its fields by itself."""
