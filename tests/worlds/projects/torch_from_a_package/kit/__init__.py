from .own import *
