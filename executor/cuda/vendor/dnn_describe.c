/* dnn_describe.c - converts tensors, operations and graphs to descriptors of cuDNN's backend API. Tables map each operand to
 * its attribute, and each operation to its parameters. */
#include "executor/cuda/vendor/dnn_describe.h"

#include <string.h>

#include "executor/cuda/device/context.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"

#define OPERATION(name) CUDNN_ATTR_OPERATION_##name

enum { NO_PARAMETERS = -1 };

/* One row per kind of operation (mp_dnn_kind): its cuDNN descriptor type, and the attributes of its operands in order. */
static const struct form {
    cudnnBackendDescriptorType_t type;
    int parameters; /* type of the cuDNN descriptor that holds the operation's parameters, such as stride and padding */
    cudnnBackendAttributeName_t parameters_at, operands[MP_DNN_OPERANDS];
} forms[MP_DNN_N_KINDS] = {
    [MP_DNN_CONVOLVE] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                         OPERATION(CONVOLUTION_FORWARD_CONV_DESC),
                         {OPERATION(CONVOLUTION_FORWARD_X), OPERATION(CONVOLUTION_FORWARD_W),
                          OPERATION(CONVOLUTION_FORWARD_Y)}},
    [MP_DNN_CONVOLVE_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                              CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                              OPERATION(CONVOLUTION_BWD_DATA_CONV_DESC),
                              {OPERATION(CONVOLUTION_BWD_DATA_DY), OPERATION(CONVOLUTION_BWD_DATA_W),
                               OPERATION(CONVOLUTION_BWD_DATA_DX)}},
    [MP_DNN_CONVOLVE_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                                OPERATION(CONVOLUTION_BWD_FILTER_CONV_DESC),
                                {OPERATION(CONVOLUTION_BWD_FILTER_X), OPERATION(CONVOLUTION_BWD_FILTER_DY),
                                 OPERATION(CONVOLUTION_BWD_FILTER_DW)}},
    [MP_DNN_POINTWISE] = {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                          CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
                          OPERATION(POINTWISE_PW_DESCRIPTOR),
                          {OPERATION(POINTWISE_XDESC), OPERATION(POINTWISE_BDESC), OPERATION(POINTWISE_YDESC),
                           OPERATION(POINTWISE_DXDESC), OPERATION(POINTWISE_DYDESC), OPERATION(POINTWISE_TDESC)}},
    [MP_DNN_MATMUL] = {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                       CUDNN_BACKEND_MATMUL_DESCRIPTOR,
                       OPERATION(MATMUL_DESC),
                       {OPERATION(MATMUL_ADESC), OPERATION(MATMUL_BDESC), OPERATION(MATMUL_CDESC)}},
    [MP_DNN_REDUCE] = {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                       CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
                       OPERATION(REDUCTION_DESC),
                       {OPERATION(REDUCTION_XDESC), OPERATION(REDUCTION_YDESC)}},
    [MP_DNN_RESHAPE] = {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
                        NO_PARAMETERS,
                        0,
                        {OPERATION(RESHAPE_XDESC), OPERATION(RESHAPE_YDESC)}},
    [MP_DNN_RANDOM] = {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR,
                       CUDNN_BACKEND_RNG_DESCRIPTOR,
                       OPERATION(RNG_DESC),
                       {OPERATION(RNG_YDESC), OPERATION(RNG_SEED), OPERATION(RNG_OFFSET_DESC)}},
};

/* The attributes of a convolution for its scalars alpha and beta: result = alpha * convolution + beta * old result. */
static const cudnnBackendAttributeName_t factors[][2] = {
    [MP_DNN_CONVOLVE] = {OPERATION(CONVOLUTION_FORWARD_ALPHA), OPERATION(CONVOLUTION_FORWARD_BETA)},
    [MP_DNN_CONVOLVE_DATA] = {OPERATION(CONVOLUTION_BWD_DATA_ALPHA), OPERATION(CONVOLUTION_BWD_DATA_BETA)},
    [MP_DNN_CONVOLVE_FILTER] = {OPERATION(CONVOLUTION_BWD_FILTER_ALPHA), OPERATION(CONVOLUTION_BWD_FILTER_BETA)},
};

static mp_status make(mp_dnn_plan *p, cudnnBackendDescriptorType_t type, mp_error *err)
{
    MP_CUDNN(cudnnBackendCreateDescriptor(type, &p->made[p->n_made]), err);
    p->n_made++;
    return MP_OK;
}

static mp_status set(const mp_dnn_plan *p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                     const void *values, mp_error *err)
{
    MP_CUDNN(cudnnBackendSetAttribute(p->made[p->n_made - 1], name, type, n, values), err);
    return MP_OK;
}

static mp_status finalize(const mp_dnn_plan *p, mp_error *err)
{
    MP_CUDNN(cudnnBackendFinalize(p->made[p->n_made - 1]), err);
    return MP_OK;
}

static mp_status describe_tensor(mp_dnn_plan *p, int64_t k, mp_error *err)
{
    const mp_dnn_tensor *t = &p->graph.tensors[k];
    cudnnDataType_t type = (cudnnDataType_t)t->type;
    int64_t id = k + 1, alignment = t->is_by_value ? 4 : 16;
    bool yes = true;
    MP_CHECK(make(p, CUDNN_BACKEND_TENSOR_DESCRIPTOR, err));
    MP_CHECK(set(p, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, err));
    MP_CHECK(set(p, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, err));
    MP_CHECK(set(p, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, err));
    MP_CHECK(set(p, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->rank, t->dims, err));
    MP_CHECK(set(p, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->rank, t->strides, err));
    if (t->is_virtual) MP_CHECK(set(p, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes, err));
    if (t->is_by_value) MP_CHECK(set(p, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes, err));
    return finalize(p, err);
}

static mp_status set_convolution(const mp_dnn_plan *p, const mp_dnn_operation *o, mp_error *err)
{
    cudnnDataType_t computes = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    MP_CHECK(set(p, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &computes, err));
    MP_CHECK(set(p, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode, err));
    MP_CHECK(set(p, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &o->n, err));
    MP_CHECK(set(p, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, o->n, o->dilation, err));
    MP_CHECK(set(p, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, o->n, o->stride, err));
    MP_CHECK(set(p, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, o->n, o->begin, err));
    return set(p, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, o->n, o->end, err);
}

static mp_status set_others(const mp_dnn_plan *p, const mp_dnn_operation *o, mp_error *err)
{
    cudnnDataType_t computes = CUDNN_DATA_FLOAT;
    cudnnPointwiseMode_t pointwise = (cudnnPointwiseMode_t)o->mode;
    cudnnReduceTensorOp_t reduction = (cudnnReduceTensorOp_t)o->mode;
    cudnnRngDistribution_t distribution = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
    bool yes = true;
    if (o->kind == MP_DNN_POINTWISE) {
        if (o->operands[2] >= 0 && p->graph.tensors[o->operands[2]].type == CUDNN_DATA_BOOLEAN) computes = CUDNN_DATA_BOOLEAN;
        MP_CHECK(set(p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &pointwise, err));
        MP_CHECK(set(p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &computes, err));
        if (pointwise == CUDNN_POINTWISE_GEN_INDEX)
            MP_CHECK(set(p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &o->axis, err));
    } else if (o->kind == MP_DNN_REDUCE) {
        MP_CHECK(set(p, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &reduction, err));
        MP_CHECK(set(p, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &computes, err));
        MP_CHECK(set(p, CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN, 1, &yes, err));
    } else if (o->kind == MP_DNN_RANDOM) {
        MP_CHECK(set(p, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &distribution, err));
        MP_CHECK(set(p, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &o->probability, err));
    } else {
        MP_CHECK(set(p, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &computes, err));
    }
    return MP_OK;
}

static mp_status describe_parameters(mp_dnn_plan *p, const mp_dnn_operation *o, mp_error *err)
{
    MP_CHECK(make(p, (cudnnBackendDescriptorType_t)forms[o->kind].parameters, err));
    if (forms[o->kind].parameters == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        MP_CHECK(set_convolution(p, o, err));
    else
        MP_CHECK(set_others(p, o, err));
    return finalize(p, err);
}

/* Creates the descriptor of an operation in *out. */
static mp_status describe_operation(mp_dnn_plan *p, const mp_dnn_operation *o, cudnnBackendDescriptor_t *out, mp_error *err)
{
    const struct form *f = &forms[o->kind];
    float scales[2] = {1, o->adds ? 1 : 0};
    if (f->parameters != NO_PARAMETERS) MP_CHECK(describe_parameters(p, o, err));
    cudnnBackendDescriptor_t parameters = p->made[p->n_made - 1];
    MP_CHECK(make(p, f->type, err));
    if (f->parameters != NO_PARAMETERS) MP_CHECK(set(p, f->parameters_at, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parameters, err));
    for (int k = 0; f->parameters == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR && k < 2; k++)
        MP_CHECK(set(p, factors[o->kind][k], CUDNN_TYPE_FLOAT, 1, &scales[k], err));
    for (int i = 0; i < MP_DNN_OPERANDS; i++)
        if (o->operands[i] >= 0)
            MP_CHECK(set(p, f->operands[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p->made[o->operands[i]], err));
    MP_CHECK(finalize(p, err));
    *out = p->made[p->n_made - 1];
    return MP_OK;
}

mp_status mp_dnn_describe(mp_dnn_plan *p, mp_error *err)
{
    const mp_dnn_graph *g = &p->graph;
    cudnnBackendDescriptor_t operations[MP_DNN_OPERATIONS];
    for (int64_t k = 0; k < g->n_tensors; k++) MP_CHECK(describe_tensor(p, k, err));
    for (int64_t k = 0; k < g->n_operations; k++) MP_CHECK(describe_operation(p, &g->operations[k], &operations[k], err));
    MP_CHECK(make(p, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, err));
    MP_CHECK(mp_dnn_set_device(p->made[p->n_made - 1], CUDNN_ATTR_OPERATIONGRAPH_HANDLE, -1, err));
    MP_CHECK(set(p, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_operations, operations, err));
    return finalize(p, err);
}

/* ---- the GPU that cuDNN plans for: the open one, or an assumed one */

/* The properties of an H200, as cuDNN 9.8 and later serialize them. */
static const char assumed[] = "{\"deviceName\":\"NVIDIA H200\",\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
                              "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
                              "\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
                              "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
                              "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
                              "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
                              "\"totalGlobalMem\":150000000000,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
                              "\"l2CacheSize\":62914560}";

/* Returns in *out the descriptor of the assumed device, which is created at first use. */
static mp_status assume(cudnnBackendDescriptor_t *out, mp_error *err)
{
    mp_cuda_context *c = mp_cuda_current();
    MP_OWNED_BY(cudnnBackendDestroyDescriptor) cudnnBackendDescriptor_t made = NULL;
    if (!c->dnn_properties) {
        MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made), err);
        MP_CUDNN(cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                          (int64_t)strlen(assumed), assumed),
                 err);
        MP_CUDNN(cudnnBackendFinalize(made), err);
        c->dnn_properties = made;
        made = NULL;
    }
    *out = c->dnn_properties;
    return MP_OK;
}

mp_status mp_dnn_set_device(cudnnBackendDescriptor_t descriptor, int handle_at, int properties_at, mp_error *err)
{
    const mp_cuda_device *device;
    cudnnBackendDescriptor_t properties;
    if (mp_cuda_open(&device, NULL) == MP_OK) {
        if (handle_at >= 0)
            MP_CUDNN(cudnnBackendSetAttribute(descriptor, (cudnnBackendAttributeName_t)handle_at, CUDNN_TYPE_HANDLE, 1,
                                              &device->dnn),
                     err);
    } else if (properties_at >= 0) {
        MP_CHECK(assume(&properties, err));
        MP_CUDNN(cudnnBackendSetAttribute(descriptor, (cudnnBackendAttributeName_t)properties_at, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, &properties),
                 err);
    }
    return MP_OK;
}

void mp_dnn_device_forget(void)
{
    mp_cuda_context *c = mp_cuda_current();
    if (c->dnn_properties) cudnnBackendDestroyDescriptor(c->dnn_properties);
    c->dnn_properties = NULL;
}
