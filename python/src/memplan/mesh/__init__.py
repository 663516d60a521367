"""What a rank of a mesh would take, asked in one process, before the mesh is there."""
