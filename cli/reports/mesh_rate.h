/* mesh_rate.h - samples and tokens per second of a step, and its share of the devices' peak FLOPs (MFU). */
#pragma once

#include "cli/subject/subject.h"
#include "memplan/ranks/meshes.h"

typedef struct mesh_rate {
    int64_t tokens;    /* tokens of a sample: the longest integer input of two dimensions; 0: no such input */
    double flops;      /* FLOPs of forward and backward of a sample, without recomputation; 0: unknown */
    double peak_flops; /* peak FLOP/s of a device, in `type` */
    const char *type;  /* type of matrix products: "bf16" */
} mesh_rate;

/* Returns the type of matrix products: --amp, or else --dtype. */
const char *mesh_rate_type(const model_options *o);
/* Sets peak_flops and type. */
void mesh_rate_of_device(const model_options *o, const mp_device *device, mesh_rate *out);
/* Sets the tokens of a sample of the subject's model. */
void mesh_rate_of_model(const subject *s, mesh_rate *out);
/* Returns the FLOPs of a graph's forward, loss and backward. Each node counts once. O(nodes). */
double mesh_rate_flops(const mp_graph *graph);
/* Returns the share of the peak FLOP/s of all devices that a step of `samples` samples uses; 0: unknown. */
double mesh_rate_share(const mesh_rate *r, int64_t devices, int64_t samples, double seconds);
/* Prints one sentence with the rates of a step. */
void mesh_rate_print(const mesh_rate *r, int64_t devices, int64_t samples, double seconds);
