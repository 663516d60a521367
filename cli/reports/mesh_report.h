/* mesh_report.h - prints the meshes found by `memplan parallel`, their pipeline stages, and the reasons against other meshes.
 */
#pragma once

#include "memplan/ranks/meshes.h"

/* mp_text (formats/base/text.h) allocates the texts that these functions return. */
/* the mesh, and its schedule unless that is 1f1b: "pp=4 interleaved 2" */
const char *mesh_choice_name(const mp_mesh_choice *c);
/* Returns the reason why a choice is not among the best: one sentence without its subject. */
const char *mesh_reason_text(const mp_mesh_choice *c, const mp_mesh_choice *best, const char *within);
/* Returns a sentence about how full the memory is with the fastest mesh, and a remedy. NULL: enough memory is free. At least
 * one mesh must fit. */
const char *mesh_tight_text(const mp_meshes *found, int64_t memory_bytes);

void mesh_print_best(const mp_meshes *found);
void mesh_print_stages(const mp_mesh_choice *c, bool has_host);
/* Prints how many choices were set aside for each reason, and for each reason the nearest choice: the fastest, or the one that
 * needs the least memory. `within` names the memory. */
void mesh_print_set_aside(const mp_meshes *found, const char *within);
