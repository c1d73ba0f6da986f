// Whether pairs have types, as transformers 5.24's AutoTokenizer gives them (its classes' model_input_names).
#include "text/tokenizer/token_types.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hone::text {
namespace {

TEST(TokenTypes, AreAsTheFolderTheClassOrTheModelSays) {
  const auto of_class = [](const std::string& name, const std::string& model = "bert") {
    return says_token_types(fmt::format("{{\"tokenizer_class\": \"{}\"}}", name), model);
  };
  for (const char* name : {"BertTokenizer", "BertTokenizerFast", "DebertaV2Tokenizer", "ElectraTokenizerFast"})
    EXPECT_TRUE(of_class(name)) << name;
  for (const char* name : {"PreTrainedTokenizerFast", "TokenizersBackend", "AlbertTokenizer", "RobertaTokenizerFast",
                           "RoFormerTokenizer", "RemBertTokenizer"})
    EXPECT_FALSE(of_class(name)) << name;
  EXPECT_FALSE(says_token_types(
      R"({"tokenizer_class": "BertTokenizer", "model_input_names": ["input_ids", "attention_mask"]})", "bert"));
  EXPECT_TRUE(says_token_types(
      R"({"tokenizer_class": "TokenizersBackend", "model_input_names": ["input_ids", "token_type_ids"]})", "bert"));
  for (const char* model : {"bert", "electra", "nomic_bert", "deberta", ""}) EXPECT_TRUE(says_token_types("{}", model));
  for (const char* model : {"roberta", "modernbert", "nystromformer", "new"})
    EXPECT_FALSE(says_token_types("{}", model)) << model;
}

}  // namespace
}  // namespace hone::text
