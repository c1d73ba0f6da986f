// A fresh model's config.json says which tokens begin, end and pad a text, or that none does.
#include "hub/fresh.h"

#include <gtest/gtest.h>

#include "hone/config_read.h"

namespace hone::test {
namespace {

config::Node filled(const std::string& json, const Tokenizer* tokenizer) {
  Problems problems;
  config::Node node = config::parse_json(json, "config.json", problems);
  hub::add_tokenizer_keys(node, tokenizer);
  return node;
}

std::string ids_in(const config::Node& node) {
  std::string all;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const config::Node* value = node.find(key);
    all += !value ? "absent " : value->is_null() ? "null " : value->text() + " ";
  }
  return all;
}

TEST(Fresh, TakesTheTokenizersIds) {
  const auto bytes = load_tokenizer("bytes");
  const config::Node node = filled("{}", bytes.get());
  EXPECT_EQ(ids_in(node), "256 257 258 ");
  EXPECT_EQ(node.find("vocab_size")->text(), "259");
}

TEST(Fresh, KeepsWhatIsSaid) {
  const auto bytes = load_tokenizer("bytes");
  const config::Node node = filled(R"({"vocab_size": 300, "eos_token_id": [7, 8], "pad_token_id": null})", bytes.get());
  EXPECT_EQ(node.find("bos_token_id")->text(), "256");
  EXPECT_EQ(node.find("eos_token_id")->items().size(), 2u);
  EXPECT_TRUE(node.find("pad_token_id")->is_null());
  EXPECT_EQ(node.find("vocab_size")->text(), "300");
}

TEST(Fresh, AnIdThatIsNotThereIsNull) {
  EXPECT_EQ(ids_in(filled("{}", nullptr)), "null null null ");
  const auto bytes = load_tokenizer("bytes");
  EXPECT_EQ(ids_in(filled(R"({"vocab_size": 257})", bytes.get())), "256 null null ") << "no row of the table";
}

TEST(Fresh, AModernBertHasNoIdsOfAnotherVocabulary) {
  const config::Node node = filled(R"({"model_type": "modernbert", "sep_token_id": 3})", nullptr);
  ASSERT_TRUE(node.find("cls_token_id"));
  EXPECT_TRUE(node.find("cls_token_id")->is_null());
  EXPECT_EQ(node.find("sep_token_id")->text(), "3");
  EXPECT_FALSE(filled(R"({"model_type": "bert"})", nullptr).find("cls_token_id"));
}

}  // namespace
}  // namespace hone::test
