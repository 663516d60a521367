/* estimator.h - models, the operator registry, targets, training graphs and the timeline: what a step needs, and when. */
#ifndef ESTIMATOR_ESTIMATOR_H
#define ESTIMATOR_ESTIMATOR_H

#include "estimator/graph.h"
#include "estimator/infer.h"
#include "estimator/model.h"
#include "estimator/module_name.h"
#include "estimator/ops.h"
#include "estimator/simplify.h"
#include "estimator/summary.h"
#include "estimator/target.h"
#include "estimator/timeline.h"
#include "estimator/training.h"

#endif
