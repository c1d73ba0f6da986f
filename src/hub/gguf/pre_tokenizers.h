// How a byte-level tokenizer cuts texts into words, by the names that llama.cpp has for the ways it knows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hone::gguf {

// tokenizer.ggml.pre of a tokenizer.json's pre-tokenizer, found by what it does: its patterns, one after the other.
// merges: whether the model has any; without them it matters to nobody where a text is cut. ignore_merges: whole words
// that are tokens are taken as such. "": llama.cpp does not know it.
std::string pre_tokenizer_name(const nlohmann::json& pre_tokenizer, bool merges, bool ignore_merges);
// Whether it puts a blank before a text, which llama.cpp does not.
bool adds_blank(const nlohmann::json& pre_tokenizer);

}  // namespace hone::gguf
