"""Where submissions come from: models through litellm in a child process, and the built-in submitters."""
