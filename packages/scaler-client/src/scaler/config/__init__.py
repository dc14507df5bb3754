"""The modules of settings that programs written for opengris-scaler import.

Addresses are texts that every parameter for addresses accepts. Defaults are those of this Scaler. Objects of settings
are accepted with a warning: settings are parameters, options of commands, or a file (docs/running.md)."""
