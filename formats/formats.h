/* formats.h - files: the only folder that opens them. Models and graphs in; graphs, plans and pictures out. */
#ifndef FORMATS_FORMATS_H
#define FORMATS_FORMATS_H

#include "formats/graph_json.h"
#include "formats/onnx.h"
#include "formats/plan_json.h"

#endif
