// What config.json says of texts among pictures of Qwen's and GLM's: how positions in three dimensions turn heads
// (M-RoPE; Wang et al., 2024, arXiv:2409.12191), and keys of the whole that some files have in text_config, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/config.h"
#include "models/llama_config.h"

namespace hone::models {

// What is said of rotations without what is of pictures, which goes to `sections`: how many pairs of a head turn by
// time, by height and by width. by_turns: one of each in turn, not one section behind another.
void take_sections(config::Open& rope, std::vector<std::int64_t>& sections, bool& by_turns, Problems& problems);
// By which of the three each pair turns.
std::vector<std::int64_t> axes_of(const std::vector<std::int64_t>& sections, bool by_turns);
void check_sections(const std::vector<std::int64_t>& sections, const LlamaShape& texts, Problems& problems);
// Into rope_parameters of a text_config that is written.
void write_sections(const std::vector<std::int64_t>& sections, bool by_turns, config::Node& texts);

config::Open without_tokens_of_pictures(config::Open section);

// Smaller models that are made of published files keep ids for which they have no row: they end and begin no text.
// left_out: what they were.
void leave_out_ids(const std::string& key, std::int64_t vocab, config::Open& open, std::vector<std::string>& left_out);
void leave_out_ids(config::Open& section, std::int64_t vocab, std::vector<std::string>& left_out);
// Rows of the table; type: of the texts' model.
std::int64_t vocab_of(const config::Open& section, const std::string& type);

}  // namespace hone::models
