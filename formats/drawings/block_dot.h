/* block_dot.h - the blocks of a model as a graph in DOT, for Graphviz and whatever reads its language. Private to formats/. */
#pragma once

#include "formats/drawings/block_drawing.h"

/* True if a path ends in .dot. */
bool mp_is_dot_path(const char *path);

/* Writes a node for each block, labelled and coloured as in a picture, and an edge from each block to those that read it.
 * Positions are left to the reader: `dot -Tsvg` lays it out. Atomic, as mp_file_write. MP_IO, MP_NOMEM. */
mp_status mp_block_dot_write(const mp_block_facts *facts, const char *title, const char *subtitle, const char *path,
                             mp_error *err);
