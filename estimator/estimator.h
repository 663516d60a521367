/* estimator.h - models, the operator registry, targets, training graphs and the timeline: what a step needs, and when. */
#ifndef ESTIMATOR_ESTIMATOR_H
#define ESTIMATOR_ESTIMATOR_H

#include "estimator/base/module_name.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/summary.h"
#include "estimator/graph/timeline.h"
#include "estimator/model/model.h"
#include "estimator/model/ops.h"
#include "estimator/simplify/infer.h"
#include "estimator/simplify/simplify.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"

#endif
