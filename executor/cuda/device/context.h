/* context.h - all that one backend of this module keeps between calls. Two backends share nothing. Private to executor/cuda/.
 */
#pragma once

#include "executor/cuda/device/current.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/step.h"
#include "executor/cuda/device/streams.h"
#include "executor/kernel/backend.h"

struct mp_cuda_context {
    mp_backend backend;     /* what the program sees of it */
    const mp_backend *host; /* converts arrays in the program's memory */
    int ordinal;            /* of the device, among those that CUDA_VISIBLE_DEVICES shows */
    char label[16];         /* as --device names it: "cuda", "cuda:1" */
    mp_cuda_settings settings;
    mp_device card, profile; /* card: .name NULL before it has been looked at; profile: the same under the settings */

    /* Of the open device. */
    bool is_open;
    mp_cuda_device device;
    mp_cuda_streams *streams;
    mp_cuda_step *step;
    mp_cuda_inputs *inputs;
    mp_cuda_times *times; /* NULL: none noted yet */
    void *staging;        /* pinned memory of the host, for arrays whose layout or type changes on the way. Grows, and stays */
    size_t staging_bytes;

    struct mp_dnn_plans *plans;              /* of vendor/dnn_graph.c; NULL: none yet */
    cudnnBackendDescriptor_t dnn_properties; /* of vendor/dnn_describe.c: what they are made for; NULL: none yet */
};
