"""A stand-in for IBM Spectrum Symphony: ``api/soamapi.py`` is its Python API, ``broker.py`` is Symphony itself."""
