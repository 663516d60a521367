/* context.h - the state of a GPU backend between calls. Several backends, for several GPUs, share no state. Private to
 * executor/cuda/. */
#pragma once

#include "executor/cuda/device/current.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/step_values.h"
#include "executor/cuda/device/streams.h"
#include "executor/kernel/backend.h"

struct mp_cuda_context {
    mp_backend backend;     /* the backend object of this GPU */
    const mp_backend *host; /* the CPU backend, which converts arrays in host memory */
    int ordinal;            /* number of the GPU among the GPUs that CUDA_VISIBLE_DEVICES makes visible */
    char label[16];         /* name in --device: "cuda", "cuda:1" */
    mp_cuda_settings settings;
    mp_device card, profile; /* card: data of the device, with .name NULL until the data are read; profile: the data of `card`,
                                adjusted to the settings */

    /* True if the device is open. */
    bool is_open;
    mp_cuda_device device;
    mp_cuda_streams *streams;
    mp_cuda_step *step;
    mp_cuda_inputs *inputs;
    mp_cuda_times *times; /* CUDA events of the timestamps; NULL until the first timestamp */
    void *staging; /* pinned host memory for arrays whose layout or type changes during a copy. This memory grows and never
                      shrinks */
    size_t staging_bytes;

    struct mp_dnn_plans *plans; /* cuDNN execution plans, owned by vendor/dnn_graph.c; NULL until the first plan */
    cudnnBackendDescriptor_t
        dnn_properties; /* owned by vendor/dnn_describe.c: the device that plans are created for; NULL until the first plan */
};
