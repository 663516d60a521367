/* mesh_report.h - prints meshes, their stages, and the reasons against other meshes. */
#pragma once

#include "memplan/ranks/meshes.h"

/* The returned texts are those of mp_text (formats/base/text.h). */
const char *mesh_choice_name(const mp_mesh_choice *c); /* "pp=4 interleaved 2": the mesh, and any schedule but 1f1b */
/* Returns the reason why a choice is not among the best: one sentence without its subject. */
const char *mesh_reason_text(const mp_mesh_choice *c, const mp_mesh_choice *best, const char *within);
/* Returns how full the first mesh is, and a remedy; NULL: it leaves a margin. At least one mesh must fit. */
const char *mesh_tight_text(const mp_meshes *found, int64_t memory_bytes);

void mesh_print_best(const mp_meshes *found);
void mesh_print_stages(const mp_mesh_choice *c, bool has_host);
/* Prints for each verdict the number of choices set aside, and the nearest one: the fastest, or the one that needs the least
 * memory. */
void mesh_print_set_aside(const mp_meshes *found, const char *within);
