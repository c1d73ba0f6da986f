// A head of its own in the files of a model whose config.json ties it to the embedding.
#pragma once

#include <string>

#include "hone/model.h"
#include "hub/places.h"

namespace hone::hub {

inline constexpr const char *kHead = "lm_head.weight", *kHeadModule = "lm_head";

// Whether a file of weights beside config.json has a tensor of this name.
bool has_tensor(const std::string& config_file, const std::string& name);

// Whether such a file holds a head of texts with other values than the table of words, by the names of published models
// that read pictures.
bool has_other_head(const std::string& config_file);

// Throws Error(checkpoint) where the model's head is tied and the files hold one with other values: left out, it would
// be lost without a word, and transformers takes it. One that is the embedding once more may be left out. Reads both,
// as far as they agree, and only if there are both.
void check_tied_head(const Model& model, const Places& tensors);

}  // namespace hone::hub
