/* mesh_report.h - prints the meshes that `memplan parallel` found, their pipeline stages, and the reasons against other
 * meshes. */
#pragma once

#include "memplan/ranks/meshes.h"

/* mp_text (formats/base/text.h) allocates the texts that these functions return. */
/* Returns the mesh, followed by its schedule unless that is 1f1b: "pp=4 interleaved 2" */
const char *mesh_choice_name(const mp_mesh_choice *c);
/* Returns the seconds of a step, after a ~ if they are those of the block model. */
const char *mesh_seconds_text(const mp_mesh_choice *c);
/* Returns the reason why a choice is not among the best, as a sentence without its subject: "needs at least 30.00 GiB of the
 * memory, however it recomputes". `within`: the text for the memory. */
const char *mesh_reason_text(const mp_mesh_choice *c, const mp_mesh_choice *best, const char *within);
/* Returns a sentence that states how full the memory is with the fastest mesh, and a remedy. NULL: enough memory is free.
 * Precondition: at least one mesh fits. */
const char *mesh_tight_text(const mp_meshes *found, int64_t memory_bytes);

void mesh_print_best(const mp_meshes *found);
void mesh_print_stages(const mp_mesh_choice *c, bool has_host);
/* Prints, for each reason why choices were rejected, the number of these choices and the best of them: the fastest, or the one
 * that needs the least memory. `within` is the text for the memory. */
void mesh_print_set_aside(const mp_meshes *found, const char *within);
