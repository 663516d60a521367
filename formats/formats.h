/* formats.h - files: the only folder that opens them. Models and graphs in; graphs, plans and pictures out. */
#ifndef FORMATS_FORMATS_H
#define FORMATS_FORMATS_H

#include "formats/canvas.h"
#include "formats/curve_picture.h"
#include "formats/dataset.h"
#include "formats/graph_dot.h"
#include "formats/graph_json.h"
#include "formats/graph_picture.h"
#include "formats/loss_picture.h"
#include "formats/onnx.h"
#include "formats/onnx_weights.h"
#include "formats/pack_csv.h"
#include "formats/plan_json.h"
#include "formats/process_memory.h"
#include "formats/safetensors.h"
#include "formats/timeline_picture.h"

#endif
