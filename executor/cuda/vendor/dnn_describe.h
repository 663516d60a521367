/* dnn_describe.h - the descriptors that cuDNN takes: of a device, of a graph with its tensors and operations. Private to
 * executor/cuda/vendor/.
 */
#ifndef EXECUTOR_CUDA_DNN_DESCRIBE_H
#define EXECUTOR_CUDA_DNN_DESCRIBE_H

#include "executor/cuda/vendor/dnn_plan.h"

/* Makes the descriptors of tensors and operations, and the operation graph, which is the last of `made`. */
mp_status mp_dnn_describe(mp_dnn_plan *p, mp_error *err);

/* The properties that plans are made for (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR): of the open GPU or, without one, assumed.
 * Kept with the backend that the calling thread uses. */
mp_status mp_dnn_device(cudnnBackendDescriptor_t *out, mp_error *err);
void mp_dnn_device_forget(void);

#endif
