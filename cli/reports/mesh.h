/* mesh.h - the answer of `memplan parallel`: the meshes that it found, with rates, as text and as JSON. */
#pragma once

#include <jansson.h>

#include "executor/workload/workload.h"
#include "memplan/ranks/meshes.h"

/* ---- mesh_rate.c ---- */

/* Rates of a training step: samples per second, tokens per second, and the MFU, which is the fraction of the devices' peak
 * FLOP/s that the step uses. */

typedef struct mesh_rate {
    /* tokens per sample, which is the length of the longest integer input with two dimensions; 0: there is no such input */
    int64_t tokens;
    double flops;      /* FLOPs of the forward and backward pass for one sample, without recomputation; 0: unknown */
    double peak_flops; /* peak FLOP/s of one device for products in `type` */
    const char *type;  /* data type of the operands of matrix products, such as "bf16" */
} mesh_rate;

/* Returns the data type of the operands of matrix products: the value of --amp, or without --amp the value of --dtype. */
const char *mesh_rate_type(const mp_workload_options *o);
/* Sets peak_flops and type. */
void mesh_rate_of_device(const mp_workload_options *o, const mp_device *device, mesh_rate *out);
/* Sets the number of tokens per sample of the workload's model. */
void mesh_rate_of_model(const mp_workload *s, mesh_rate *out);
/* Returns the FLOPs of the forward, loss and backward nodes of a graph. Each node counts once, without recomputation.
 * O(nodes). */
double mesh_rate_flops(const mp_graph *graph);
/* Returns the fraction (0 to 1) of the peak FLOP/s of all devices that a step uses, if it takes `seconds` for `samples`
 * samples. 0: unknown. */
double mesh_rate_share(const mesh_rate *r, int64_t devices, int64_t samples, double seconds);
/* Prints the rates of a training step in one sentence. */
void mesh_rate_print(const mesh_rate *r, int64_t devices, int64_t samples, double seconds);

/* ---- mesh_report.c ---- */

/* Prints the meshes that `memplan parallel` found, their pipeline stages, and the reasons against other meshes. */

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

/* ---- mesh_json.c: converts one choice of `memplan parallel` to JSON: a mesh with its schedule, times and memory ---- */

/* Returns a choice as JSON. The best choices also have rates (samples per second) and stages. If the search had a link to the
 * host, stages also have their bytes on the host. */
json_t *mesh_choice_json(const mp_mesh_choice *choice, const mp_meshes_request *request, const mesh_rate *rate);
