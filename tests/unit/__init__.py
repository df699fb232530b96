"""Parts of the package, one by one."""
