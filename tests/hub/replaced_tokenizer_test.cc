// Types of models whose tokenizer transformers 5 makes by a class of its own: told where that splits otherwise.
#include "hub/replaced_tokenizer.h"

#include <gmock/gmock.h>

#include <string>

#include "hone/config_read.h"
#include "hone/hub.h"

namespace hone::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kSizes =
    R"("hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
       "num_key_value_heads": 1, "vocab_size": 300)";

std::unique_ptr<Model> model_of(const std::string& type) {
  Problems problems;
  const config::Node node = config::parse_json("{\"model_type\": \"" + type + "\", " + kSizes + "}", "test", problems);
  return build_model(node, "test");
}

// Files, which is all that is looked at.
class FilesAlone final : public Tokenizer {
 public:
  Encoding encode(std::string_view, bool) const override { return {}; }
  std::string decode(const std::vector<std::int32_t>&, bool) const override { return ""; }
  std::int64_t vocab_size() const override { return 0; }
  std::optional<std::int32_t> id_of(std::string_view) const override { return {}; }
  std::optional<std::string> token_of(std::int32_t) const override { return {}; }
  bool is_special(std::int32_t) const override { return false; }
};

FilesAlone with_splitting(const std::string& normalizer, const std::string& pattern) {
  FilesAlone made;
  made.files = {{"tokenizer.json", R"({"normalizer": {"type": ")" + normalizer +
                                       R"("}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": ")" +
                                       pattern +
                                       R"("}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]}})"}};
  return made;
}

// As the tokenizer.json of Qwen 2 and 3 has it.
constexpr const char* kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|)"
    R"(\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";

TEST(ReplacedTokenizer, IsToldOfAQwen2WithAnother) {
  const auto qwen2 = model_of("qwen2");
  EXPECT_THAT(hub::replaced_tokenizer(*qwen2, *load_tokenizer("bytes")), HasSubstr("Qwen2Tokenizer"));
  EXPECT_THAT(hub::replaced_tokenizer(*qwen2, with_splitting("NFC", kQwen)), IsEmpty());
  EXPECT_THAT(hub::replaced_tokenizer(*qwen2, with_splitting("NFKC", kQwen)), HasSubstr("Qwen2Tokenizer"));
  EXPECT_THAT(hub::replaced_tokenizer(*qwen2, with_splitting("NFC", "[a-z]+")), HasSubstr("Qwen2Tokenizer"));
}

TEST(ReplacedTokenizer, OfOtherTypesFilesCount) {
  EXPECT_THAT(hub::replaced_tokenizer(*model_of("qwen3"), *load_tokenizer("bytes")), IsEmpty());
  EXPECT_THAT(hub::replaced_tokenizer(*model_of("llama"), with_splitting("NFC", "[a-z]+")), IsEmpty());
}

}  // namespace
}  // namespace hone::test
