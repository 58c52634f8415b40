"""Facts about torch and the libraries around it, loaded from `torchmigrate/data`."""
