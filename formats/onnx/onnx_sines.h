/* onnx_sines.h - tables of positions that were computed and not learned, told by their numbers. Private to formats/. */
#pragma once

#include "estimator/model/model.h"

/* Sines and cosines of positions (Vaswani et al. 2017, 3.5): position 0 is half zeros and half ones, exactly, all others are
 * within -1 and 1. False where the elements are not known. O(elements). */
bool mp_onnx_is_sines(const mp_tensor *tensor);
