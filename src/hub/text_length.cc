#include "hub/text_length.h"

#include <nlohmann/json.hpp>

#include "io/json.h"

namespace hone::hub {
namespace {

constexpr std::int64_t kNoLength = 1'000'000'000;  // transformers writes a number beyond it where nobody knows

std::optional<std::int64_t> length_in(const std::filesystem::path& file, const char* key) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const nlohmann::json json = io::read_json_file(file);
  const auto found = json.find(key);
  const bool known = found != json.end() && found->is_number_integer() && *found < kNoLength;
  return known ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> said_length(const std::filesystem::path& folder) {
  const std::optional<std::int64_t> own = length_in(folder / "sentence_bert_config.json", "max_seq_length");
  return own ? own : length_in(folder / "tokenizer_config.json", "model_max_length");  // newer versions leave it there
}

}  // namespace hone::hub
