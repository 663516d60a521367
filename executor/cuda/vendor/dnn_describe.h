/* dnn_describe.h - makes cuDNN's descriptors of a device, and of a graph with its tensors and operations. Private to
 * executor/cuda/vendor/. */
#pragma once

#include "executor/cuda/vendor/dnn_plan.h"

/* Makes the descriptors of tensors and operations, and the operation graph, which is the last of `made`. */
mp_status mp_dnn_describe(mp_dnn_plan *p, mp_error *err);

/* Sets the GPU that a descriptor (graph, heuristics, plan) is for: the open one by its handle, as cuDNN's own frontend does,
 * or without one an assumed one by its properties. The arguments are the descriptor's attributes for handle and properties;
 * -1: it has none, and takes them from its graph. */
mp_status mp_dnn_set_device(cudnnBackendDescriptor_t descriptor, int handle_at, int properties_at, mp_error *err);
/* Releases the device's properties, which are kept with the backend of the calling thread. */
void mp_dnn_device_forget(void);
