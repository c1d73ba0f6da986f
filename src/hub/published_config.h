// config.json as authors published it before transformers had their models, in transformers' form.
//
//   nomic_bert with GPT-2's names of keys (n_embd, n_layer, …), as nomic-embed-text has them   nomic_bert
//   new, Alibaba's code of gte-base-en-v1.5 and its like                                       gte
#pragma once

#include "hone/config.h"

namespace hone::hub {

// As it came, where it is no such form. Throws Error(config) for what the model in transformers has not.
config::Node in_transformers_form(const config::Node& config);

}  // namespace hone::hub
