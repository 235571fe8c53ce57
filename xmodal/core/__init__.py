"""What every other package uses: the config reader, the mesh, files, pages and the console."""
