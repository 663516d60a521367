/* mesh_rate.h - the rates of a training step: samples per second, tokens per second, and the MFU, which is the fraction of the
 * devices' peak FLOP/s that the step uses. */
#pragma once

#include "executor/workload/workload.h"
#include "memplan/ranks/meshes.h"

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
