/* mesh_rate.h - samples and tokens per second of a step, and its share of the devices' peak FLOPs (MFU). */
#pragma once

#include "cli/subject/subject.h"
#include "memplan/ranks/meshes.h"

typedef struct mesh_rate {
    int64_t tokens;    /* of a sample: the longest integer input of two dimensions; 0: there is none */
    double flops;      /* of a sample's forward and backward, without recomputation; 0: unknown */
    double peak_flops; /* of a device, in `type` */
    const char *type;  /* of products: "bf16" */
} mesh_rate;

/* Returns the type of products: --amp, else --dtype. */
const char *mesh_rate_type(const model_options *o);
/* Sets peak_flops and type. */
void mesh_rate_of_device(const model_options *o, const mp_device *device, mesh_rate *out);
/* Notes the tokens of a sample of the subject's model. */
void mesh_rate_of_model(const subject *s, mesh_rate *out);
/* Returns the FLOPs of a graph's forward, loss and backward, each node once. O(nodes). */
double mesh_rate_flops(const mp_graph *graph);
/* Returns the share of the peak FLOPs of all devices that a step of so many samples uses; 0: unknown. */
double mesh_rate_share(const mesh_rate *r, int64_t devices, int64_t samples, double seconds);
/* Prints one sentence about a step. */
void mesh_rate_print(const mesh_rate *r, int64_t devices, int64_t samples, double seconds);
