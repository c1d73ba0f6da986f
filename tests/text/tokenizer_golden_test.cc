// Ids, offsets and decoded text equal those of Hugging Face's tokenizers library, for every component.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "text/made_golden.h"

namespace hone::text {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

TEST(Tokenizer, EqualsTheLibraryInEveryComponent) {
  for (const json& c : made_golden()["cases"]) {
    const std::string name = c["name"];
    SCOPED_TRACE(name);
    const auto tokenizer = make(tokenizer_json(c["model"], c["parts"]));
    for (const json& answer : c["answers"]) {
      SCOPED_TRACE(answer["text"].dump());
      const Encoding got = tokenizer->encode(answer["text"].get<std::string>());
      EXPECT_EQ(got.ids, answer["ids"].get<std::vector<std::int32_t>>());
      // Behind a dropped character the library's offsets are wrong; ours are not.
      if (name != "unknown-dropped") {
        EXPECT_EQ(json(got.offsets), answer["offsets"]);
      }
      const std::string decoded = answer.value("decoded", answer["text"].get<std::string>());
      EXPECT_EQ(tokenizer->decode(got.ids), decoded);
      EXPECT_EQ(tokenizer->decode(got.ids, false), answer.value("plain", decoded));
      EXPECT_EQ(streamed(*tokenizer, got.ids), decoded);
    }
  }
}

TEST(Tokenizer, KeepsOffsetsRightBehindADroppedCharacter) {
  const Encoding got = made("unknown-dropped")
                           ->encode(
                               "a\x7f\x7f"
                               "b\x7f");
  EXPECT_EQ(got.offsets, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 3}, {3, 5}}));
}

const char* test_data() { return std::getenv("HONE_TEST_DATA"); }

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> documents(const std::string& name) {
  const fs::path folder = fs::path(test_data()) / "datasets" / name;
  std::vector<std::string> texts;
  if (name == "tinyshakespeare") texts.push_back(read(folder / "input.txt"));
  if (name == "tinystories")
    for (const json& row : json::parse(read(folder / "tinystories_1000.json")))
      texts.push_back(row.is_string() ? row.get<std::string>()
                                      : row.value(row.contains("story") ? "story" : "text", ""));
  if (name == "gsm8k") {
    std::ifstream file(folder / "train.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json row = json::parse(line);
      texts.push_back(row["question"].get<std::string>() + "\n" + row["answer"].get<std::string>());
    }
  }
  if (name == "fastchat")
    for (const json& talk : json::parse(read(folder / "dummy_conversation.json")))
      for (const json& turn : talk["conversations"]) texts.push_back(turn["value"]);
  return texts;
}

// FNV-1a over the ids, as the golden's maker has it.
std::string fold(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&](std::uint32_t id) { hash = (hash ^ id) * 0x100000001B3; };
  for (const std::string& text : texts) {
    for (const std::int32_t id : tokenizer.encode(text).ids) add(static_cast<std::uint32_t>(id));
    add(0xFFFFFFFF);
  }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

TEST(RealTokenizer, EqualsTheLibraryOnAwkwardTexts) {
  if (!test_data()) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const json golden = read_golden("real.json");
  for (const auto& [name, want] : golden["tokenizers"].items()) {
    const auto tokenizer = load_tokenizer((fs::path(test_data()) / name / "tokenizer.json").string());
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      SCOPED_TRACE(name + " " + golden["texts"][i].dump());
      const auto ids = tokenizer->encode(golden["texts"][i].get<std::string>()).ids;
      EXPECT_EQ(ids, want["ids"][i].get<std::vector<std::int32_t>>());
      EXPECT_EQ(streamed(*tokenizer, ids), tokenizer->decode(ids));
    }
  }
}

TEST(RealTokenizer, EqualsTheLibraryOnWholeDataSets) {
  if (!test_data()) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const json golden = read_golden("real.json");
  std::map<std::string, std::vector<std::string>> sets;
  for (const char* name : {"tinystories", "tinyshakespeare", "gsm8k", "fastchat"}) sets[name] = documents(name);
  for (const auto& [name, want] : golden["tokenizers"].items()) {
    const auto tokenizer = load_tokenizer((fs::path(test_data()) / name / "tokenizer.json").string());
    for (const auto& [set, hash] : want["sets"].items())
      EXPECT_EQ(fold(*tokenizer, sets[set]), hash) << name << " " << set;
  }
}

}  // namespace
}  // namespace hone::text
