from .coil import turns
