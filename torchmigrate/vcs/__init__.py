"""Read and write git repositories without running programs that the repository names."""
