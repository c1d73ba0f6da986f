// What a model of texts and images says of its texts' half in config.json.
#pragma once

#include "hone/config.h"

namespace hone::config {

// The section text_config as a config.json of its own, where there is a vision_config, too; itself, where there is not.
// What the file says besides of both halves, such as a tied head, where texts end and labels of a classifier, counts.
Node texts_half(const Node& config);

// Whether a config.json says that its model has labels for texts or tokens.
bool is_of_classifier(const Node& config);

// The whole with the section text_config: older files, as Qwen2-VL's, have its keys beside those of the whole. Itself,
// where there is no vision_config.
Node with_texts_section(const Node& config);

// Where a config.json says what is of words alone, such as where texts end: the section text_config, where there is a
// vision_config, too; itself, where there is not.
Node& of_words(Node& config);
const Node& of_words(const Node& config);

}  // namespace hone::config
