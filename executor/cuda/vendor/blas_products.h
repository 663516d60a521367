/* blas_products.h - lists cublasLt's algorithms for the matrix product of a node. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/kernel.h"

/* Adds the algorithms of a node that runs a single matrix product to *out, the default first. If the node also computes the
 * gradient of a bias, half of the algorithms compute it in the product, and half as a separate sum (", bias apart"). Adds
 * nothing for other nodes, or without a GPU. */
mp_status mp_cuda_product_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err);
