/* mesh_report.h - meshes, their stages and the reasons of a search, on a screen. */
#pragma once

#include "memplan/ranks/meshes.h"

/* Texts as mp_text gives them (formats/base/text.h). */
const char *mesh_choice_name(const mp_mesh_choice *c); /* "pp=4 interleaved 2": the mesh, and any schedule but 1f1b */
/* Returns one sentence, without its subject: why a choice is not among the best. */
const char *mesh_reason_text(const mp_mesh_choice *c, const mp_mesh_choice *best, const char *within);
/* Returns how full the first mesh is, and the remedy; NULL: it leaves a margin. At least one mesh fits. */
const char *mesh_tight_text(const mp_meshes *found, int64_t memory_bytes);

void mesh_print_best(const mp_meshes *found);
void mesh_print_stages(const mp_mesh_choice *c, bool has_host);
/* Prints how many choices each verdict has set aside, with the nearest of each. */
void mesh_print_set_aside(const mp_meshes *found, const char *within);
