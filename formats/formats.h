/* formats.h - files: the only folder that opens them. Models and graphs in; graphs, plans and pictures out. */
#ifndef FORMATS_FORMATS_H
#define FORMATS_FORMATS_H

#include "formats/base/process_memory.h"
#include "formats/canvas/canvas.h"
#include "formats/curves/curve_picture.h"
#include "formats/curves/loss_picture.h"
#include "formats/curves/timeline_picture.h"
#include "formats/data/dataset.h"
#include "formats/data/graph_dot.h"
#include "formats/data/pack_csv.h"
#include "formats/data/safetensors.h"
#include "formats/drawings/graph_picture.h"
#include "formats/drawings/training_picture.h"
#include "formats/json/graph_json.h"
#include "formats/json/plan_json.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/onnx_weights.h"

#endif
