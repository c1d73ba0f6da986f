// What a model of texts and images says of its texts' half in config.json.
#pragma once

#include "hone/config.h"

namespace hone::config {

// The section text_config as a config.json of its own, where there is a vision_config, too; itself, where there is not.
// What the file says besides of both halves, such as a tied head, where texts end and labels of a classifier, counts.
Node texts_half(const Node& config);

}  // namespace hone::config
