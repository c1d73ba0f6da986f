// What happens to a text before it is cut: the `normalizer` of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/parts/aligned.h"
#include "text/regex/regex.h"

namespace hone::text {

// One step. Immutable: any thread may call it, with its own scratch.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(Aligned& text, RegexScratch& scratch) const = 0;
  // True when it is certain and cheap to see that the step would change nothing.
  virtual bool leaves(std::string_view) const { return false; }
};
using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

// Sequences are laid out flat. null gives none. `where` begins every message: "tokenizer.json: normalizer".
Normalizers make_normalizers(const nlohmann::json& config, const std::string& where);

void normalize(const Normalizers& steps, Aligned& text, RegexScratch& scratch);

// Steps that look at one character at a time: change(c, origin, out) appends what it becomes.
template <class Change>
void each_character(Aligned& text, Change&& change) {
  Aligned out;
  out.base = text.base;
  out.limit = text.limit;
  out.text.reserve(text.text.size());
  out.origins.reserve(text.text.size());
  for (std::size_t at = 0; at < text.text.size();) {
    const Origin origin = text.origins[at];
    const char32_t c = next_code_point(text.text, at);
    change(c, origin, out);
  }
  text = std::move(out);
}

void lower_case(Aligned& text);

// Kinds with files of their own.
std::unique_ptr<Normalizer> make_bert_normalizer(const nlohmann::json& config, const std::string& where);
std::unique_ptr<Normalizer> make_nmt_normalizer();
std::unique_ptr<Normalizer> make_precompiled_normalizer(const nlohmann::json& config, const std::string& where);

}  // namespace hone::text
