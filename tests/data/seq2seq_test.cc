// Sources with targets: forms of records, which documents they become, what is cut, and what is refused.
#include <fmt/format.h>

#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Targets : public ::testing::Test {
 protected:
  static Dataset::Options options(std::int64_t max_length = 64, std::optional<std::int64_t> target = {}) {
    Dataset::Options made;
    made.records = RecordKind::seq2seq;
    made.packing = Packing::none;
    made.max_length = max_length;
    made.targets = {target, kStart};
    return made;
  }
  std::shared_ptr<const Dataset> make(const std::string& content, const Dataset::Options& how = options(),
                                      const std::map<std::string, std::string>& columns = {},
                                      const std::string& name = "a.jsonl") {
    std::vector<DataFile> all = files({folder_.write(name, content)});
    all[0].columns = columns;
    return Dataset::make(all, *tokenizer_, how);
  }
  // "<ab$ > ^<c = <c$" of a row: the source, what the decoder reads, and what it is to say; ^ begins it, < and $ are
  // the tokenizer's.
  std::string row(const Dataset& data, std::int64_t number = 0) const {
    std::string text;
    const auto shown = [&](const std::vector<std::int64_t>& ids) {
      std::string made;
      for (const std::int64_t id : ids)
        made += id < 0                      ? "_"
                : id == *tokenizer_->eos_id ? "$"
                : id == kStart              ? "^"
                                            : tokenizer_->decode({static_cast<std::int32_t>(id)}, true);
      return made;
    };
    for (const HostDoc& doc : data.row(number)) {
      if (!text.empty()) text += doc.role == Role::target ? " > " : " | ";
      text += shown(doc.ids);
      if (doc.role == Role::target) text += " = " + shown(doc.targets);
      EXPECT_TRUE(doc.role == Role::target || shown(doc.targets) == std::string(doc.ids.size(), '_'));
    }
    return text;
  }
  std::string refused(const std::string& line) {
    return error_of(ErrorKind::data, [&] { make(line + "\n"); });
  }
  TempFolder folder_;
  static constexpr std::int32_t kStart = 258;  // padding
  std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer("bytes");
};

TEST_F(Targets, AreDocumentsBehindTheirSources) {
  const auto data = make(R"({"prompt": "ab", "completion": "cd"})"
                         "\n"
                         R"({"prompt": "e", "completion": "f"})");
  EXPECT_EQ(row(*data), "ab$ > ^cd = cd$");
  EXPECT_EQ(row(*data, 1), "e$ > ^f = f$");
  const HostBatch batch = data->batch({0, 1}, 0);
  EXPECT_EQ(batch.supervised, 5);
  EXPECT_EQ(batch.tokens, 3 + 3 + 2 + 2);
  ASSERT_EQ(batch.docs.size(), 4u);
  EXPECT_EQ(batch.docs[0].group, batch.docs[1].group);
  EXPECT_NE(batch.docs[1].group, batch.docs[2].group);
  EXPECT_EQ(batch.docs[1].role, Role::target);
}

TEST_F(Targets, AreReadInSeveralForms) {
  EXPECT_EQ(row(*make(R"({"article": "ab", "highlights": "c"})", options(),
                      {{"prompt", "article"}, {"completion", "highlights"}})),
            "ab$ > ^c = c$");
  EXPECT_EQ(row(*make(R"({"article": "ab", "highlights": "c"})", options(),
                      {{"prompt", "s: {{ article }}"}, {"completion", "highlights"}})),
            "s: ab$ > ^c = c$");
  EXPECT_EQ(row(*make(R"({"translation": {"en": "ab", "de": "c"}})", options(),
                      {{"prompt", "translation.en"}, {"completion", "translation.de"}})),
            "ab$ > ^c = c$");
  EXPECT_EQ(row(*make(R"({"instruction": "ab", "input": "x", "output": "c"})")), "ab\nx$ > ^c = c$");
  EXPECT_EQ(row(*make(R"({"instruction": "ab", "input": "", "output": "c"})")), "ab$ > ^c = c$");
  EXPECT_EQ(row(*make(R"({"input_ids": [97, 98], "labels": [99, 257, -100, -100]})")), "ab > ^c = c$");
  EXPECT_EQ(row(*make("prompt,completion\nab,c\n", options(), {}, "a.csv")), "ab$ > ^c = c$");
}

TEST_F(Targets, AreCutEachToItsLength) {
  const std::string line = R"({"prompt": "abcdef", "completion": "uvwxyz"})";
  const auto cut = make(line, options(4, 3));
  EXPECT_EQ(row(*cut), "abc$ > ^uv = uv$");
  EXPECT_EQ(cut->report().cut, 1);
  EXPECT_EQ(cut->report().cut_tokens, 3 + 4);
  EXPECT_EQ(cut->report().lost_supervised, 4);
  EXPECT_EQ(row(*make(line, options(4))), "abc$ > ^uvw = uvw$");
  Dataset::Options how = options(4, 3);
  how.overlong = Overlong::keep_end;
  EXPECT_EQ(row(*make(line, how)), "def$ > ^yz = yz$");
  how.overlong = Overlong::drop;
  EXPECT_EQ(make(line + "\n"
                        R"({"prompt": "a", "completion": "b"})",
                 how)
                ->report()
                .dropped,
            1);
  how.overlong = Overlong::error;
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(line, how); }),
              HasSubstr("a source of 7 tokens; expected at most 4"));
  how.max_length = 16;
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(line, how); }),
              HasSubstr("a target of 7 tokens; expected at most 3\n  hint: raise objective.max_target_length"));
}

TEST_F(Targets, SharePackedRows) {
  std::string lines;
  for (int i = 0; i < 6; ++i)
    lines += R"({"prompt": "ab", "completion": "c"})"
             "\n";
  Dataset::Options how = options(6, 4);
  how.packing = Packing::best_fit;
  const auto data = make(lines, how);
  EXPECT_EQ(data->rows(), 3);  // two records of five tokens in ten
  EXPECT_EQ(row(*data), "ab$ > ^c = c$ | ab$ > ^c = c$");
  const auto [held, rest] = data->split(0.4, 1);
  EXPECT_EQ(held->report().records + rest->report().records, 6);
}

TEST_F(Targets, AreKnownByTheirWholeRecord) {
  const auto data = make(R"({"prompt": "a", "completion": "b"})"
                         "\n"
                         R"({"prompt": "", "completion": "b"})"
                         "\n"
                         R"({"prompt": "a", "completion": " "})");
  EXPECT_EQ(data->report().empty, 2);
  EXPECT_EQ(data->rows(), 1);
  EXPECT_NE(make(R"({"prompt": "a", "completion": "b"})")->fingerprint(),
            make(R"({"prompt": "a", "completion": "b"})", options(64, 9))->fingerprint());
}

TEST_F(Targets, ThatAreNoneAreRefused) {
  EXPECT_THAT(refused(R"({"article": "ab", "highlights": "c"})"),
              HasSubstr("columns: {prompt: article, completion: highlights}"));
  EXPECT_THAT(refused(R"({"translation": {"en": "ab", "de": "c"}})"),
              HasSubstr("columns: {prompt: translation.en, completion: translation.de}"));
  EXPECT_THAT(refused(R"({"prompt": "ab"})"), HasSubstr("no field \"completion\""));
  EXPECT_THAT(refused(R"({"prompt": "ab", "completion": "c", "instruction": "a", "output": "b"})"),
              HasSubstr("more than one form of record"));
  EXPECT_THAT(refused(R"({"input_ids": [1], "labels": [1, -100, 2]})"), HasSubstr("-100 before the last label"));
  Dataset::Options how = options();
  how.loss = Loss::completion;
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make(R"({"prompt": "a", "completion": "b"})", how); }),
              HasSubstr("the target is learnt, and nothing else"));
}

// As Hugging Face's collators fill records up.
TEST_F(Targets, PaddingIsPassedOver) {
  EXPECT_EQ(row(*make(R"({"input_ids": [97, 98, 257, 258, 258], "labels": [99, 257, 258, 258, -100]})")),
            "ab$ > ^c = c$");
  // In between it is a token as any other: some tokenizers pad with one that texts have.
  EXPECT_EQ(row(*make(R"({"input_ids": [97, 258, 98, 257], "labels": [99, 257]})")), "a^b$ > ^c = c$");
  EXPECT_THAT(refused(R"({"input_ids": [97, 258], "labels": [99, 257], "attention_mask": [1, 0]})"),
              HasSubstr("attention_mask[1] is 0; expected 1"));
}

TEST_F(Targets, OfAListTheFirstIsLearnt) {
  Dataset::Options how = options();
  how.keep_references = true;
  const auto data = make(R"({"prompt": "ab", "completion": ["c", "d", "e"]})"
                         "\n"
                         R"({"instruction": "ab", "output": ["f"]})",
                         how);
  EXPECT_EQ(row(*data), "ab$ > ^c = c$");
  const std::vector<std::string>* kept = data->references(data->row(0)[1].record);
  ASSERT_NE(kept, nullptr);
  EXPECT_THAT(*kept, ElementsAre("c", "d", "e"));
  EXPECT_THAT(*data->references(data->row(1)[1].record), ElementsAre("f"));
  EXPECT_EQ(make(R"({"prompt": "ab", "completion": ["c"]})")->references(1), nullptr);
  EXPECT_THAT(refused(R"({"prompt": "ab", "completion": ["c", 4]})"),
              HasSubstr("field \"completion\": text 2 of the list is a number, expected a string"));
  EXPECT_THAT(refused(R"({"prompt": "ab", "completion": []})"), HasSubstr("expected a string"));
}

TEST_F(Targets, OfTwoNobodySaysWhichIsMeant) {
  EXPECT_THAT(refused(R"({"prompt": "ab", "completion": "c", "output": "d"})"),
              HasSubstr("more than one field is a target: completion, output"));
  EXPECT_THAT(refused(R"({"prompt": "ab", "instruction": "x", "output": "d"})"),
              HasSubstr("more than one field is a source: prompt, instruction"));
  EXPECT_EQ(row(*make(R"({"prompt": "ab", "gold": "c", "output": "d"})", options(), {{"completion", "gold"}})),
            "ab$ > ^c = c$");
}

// A tokenizer of mBART-50's kind, or (suffix) of those before it.
std::string tokenizer_of_languages(bool suffix) {
  const std::string en = R"({"SpecialToken": {"id": "en_XX", "type_id": 0}})",
                    text = R"({"Sequence": {"id": "A", "type_id": 0}})",
                    end = R"({"SpecialToken": {"id": "</s>", "type_id": 0}})";
  const std::string single = suffix ? text + "," + end + "," + en : en + "," + text + "," + end;
  std::string added;
  int id = 0;
  for (const char* token : {"<pad>", "</s>", "<unk>", "en_XX", "ro_RO"})
    added += fmt::format(R"({}{{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}})",
                         id == 0 ? "" : ",", id, token),
        ++id;
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)" + added +
         R"(], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": {"type":
         "TemplateProcessing", "single": [)" +
         single + R"(], "pair": [)" + single +
         R"(], "special_tokens": {"en_XX": {"id": "en_XX", "ids": [3], "tokens": ["en_XX"]},
         "</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}, "decoder": null,
         "model": {"type": "WordLevel", "vocab": {"<pad>": 0, "</s>": 1, "<unk>": 2, "en_XX": 3, "ro_RO": 4, "a": 5,
         "b": 6, "c": 7}, "unk_token": "<unk>"}})";
}

TEST_F(Targets, LanguagesTakeThePlaceOfTheTokenizers) {
  const auto ids = [&](const Dataset& data) {
    std::vector<std::vector<std::int64_t>> all;
    for (const HostDoc& doc : data.row(0)) all.push_back(doc.role == Role::target ? doc.targets : doc.ids);
    return all;
  };
  using Ids = std::vector<std::vector<std::int64_t>>;
  Dataset::Options how = options();
  how.targets.start = 1;
  for (const bool suffix : {false, true}) {
    const TempFolder files;
    const std::string file = files.write("tokenizer.json", tokenizer_of_languages(suffix));
    files.write("tokenizer_config.json", R"({"eos_token": "</s>", "pad_token": "<pad>"})");
    tokenizer_ = load_tokenizer(file);
    const char* line = R"({"prompt": "a b", "completion": "c a"})";
    how.targets.source_language = how.targets.target_language = "";
    EXPECT_EQ(ids(*make(line, how)),
              suffix ? (Ids{{5, 6, 1, 3}, {7, 5, 1, 3}}) : (Ids{{3, 5, 6, 1}, {3, 7, 5, 1}}));
    how.targets.target_language = "ro_RO";
    EXPECT_EQ(ids(*make(line, how)),
              suffix ? (Ids{{5, 6, 1, 3}, {7, 5, 1, 4}}) : (Ids{{3, 5, 6, 1}, {4, 7, 5, 1}}));
    how.targets.source_language = "ro_RO", how.targets.max_length = 3;
    EXPECT_EQ(ids(*make(line, how)),
              suffix ? (Ids{{5, 6, 1, 4}, {7, 1, 4}}) : (Ids{{4, 5, 6, 1}, {4, 7, 1}}));
    how.targets.max_length.reset();
    how.targets.source_language = "ro";
    EXPECT_THAT(error_of(ErrorKind::config, [&] { make(line, how); }),
                HasSubstr("src_lang: the tokenizer has no token \"ro\""));
  }
  tokenizer_ = load_tokenizer("bytes");
  how.targets.source_language = "a";
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make(R"({"prompt": "a b", "completion": "c a"})", how); }),
              HasSubstr("src_lang: the tokenizer puts nothing around a text"));
}

}  // namespace
}  // namespace hone::test
