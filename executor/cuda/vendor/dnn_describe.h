/* dnn_describe.h - creates cuDNN's descriptors of a device, and of a graph with its tensors and operations. Private to
 * executor/cuda/vendor/. */
#pragma once

#include "executor/cuda/vendor/dnn_plan.h"

/* Creates the descriptors of tensors and operations, then the operation graph as the last element of `made`. */
mp_status mp_dnn_describe(mp_dnn_plan *p, mp_error *err);

/* Sets the GPU of a descriptor (graph, heuristics, plan). An open GPU is set by its handle, as cuDNN's own frontend does.
 * Without a GPU, the properties of an assumed GPU are set. handle_at and properties_at are the descriptor's attributes for
 * handle and properties; -1: the descriptor lacks the attribute and uses the GPU of its graph. */
mp_status mp_dnn_set_device(cudnnBackendDescriptor_t descriptor, int handle_at, int properties_at, mp_error *err);
/* Releases the device properties stored with the backend of the calling thread. */
void mp_dnn_device_forget(void);
