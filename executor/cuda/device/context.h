/* context.h - the state that a backend of this module keeps between calls. Backends share nothing. Private to
 * executor/cuda/. */
#pragma once

#include "executor/cuda/device/current.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/step.h"
#include "executor/cuda/device/streams.h"
#include "executor/kernel/backend.h"

struct mp_cuda_context {
    mp_backend backend;     /* what the program gets */
    const mp_backend *host; /* converts arrays in the program's memory */
    int ordinal;            /* number of the device among those that CUDA_VISIBLE_DEVICES shows */
    char label[16];         /* as --device names it: "cuda", "cuda:1" */
    mp_cuda_settings settings;
    mp_device card, profile; /* card: data of the device, .name NULL until it is read; profile: the same under the settings */

    /* True if the device is open. */
    bool is_open;
    mp_cuda_device device;
    mp_cuda_streams *streams;
    mp_cuda_step *step;
    mp_cuda_inputs *inputs;
    mp_cuda_times *times; /* NULL until the first timestamp */
    void
        *staging; /* pinned host memory, for arrays whose layout or type changes during a copy. It grows, and is never shrunk */
    size_t staging_bytes;

    struct mp_dnn_plans *plans; /* of vendor/dnn_graph.c; NULL until the first plan */
    cudnnBackendDescriptor_t
        dnn_properties; /* of vendor/dnn_describe.c: the device that plans are made for; NULL until the first plan */
};
