from package.base import Base


class Model(Base):
    """A module of torch."""
