// What a record becomes, and how records become that.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/token_store.h"
#include "data/token_vector_texts.h"
#include "hone/data.h"
#include "hone/questions.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/language.h"

namespace hone::data {

// How texts with a label, and those to embed, become tokens.
struct LabelledTokenising {
  std::size_t most = 0;  // tokens of a document; 0: as many as there are
  bool keep_end = false;  // of what is too long
};

// How the records of a file become tokens. Any thread may use it.
class Tokenising {
  const std::unique_ptr<const Tokenizer> of_places_;  // what `tokenizer` is, where pictures ask for one of their own

 public:
  Tokenising(const Tokenizer& tokenizer, bool append_eos, std::optional<Loss> loss)
      : tokenizer(tokenizer), append_eos(append_eos), loss(loss) {}
  Tokenising(const Tokenizer& tokenizer, const Dataset::Options& options);
  const Tokenizer& tokenizer;
  const bool append_eos;
  const std::optional<Loss> loss;
  const std::optional<LabelledTokenising> labelled = {};
  const RecordKind records = RecordKind::language;
  const ProblemType problem_type = ProblemType::single_label_classification;
  const TokenLabels token_labels = {};
  const QuestionOptions questions = {};
  const std::shared_ptr<const PictureReader> pictures = {};  // null: records have none
  const TargetOptions targets = {};
  const std::optional<text::LanguageMark> source_language = {}, target_language = {};
  const std::string query_prompt = {}, document_prompt = {};  // of texts to embed
  const std::shared_ptr<const TokenVectorTexts> token_vectors = {};  // null: texts have one vector each
  const std::string teacher_prompt = {};                      // Dataset::Options
  const std::string chat_template_kwargs = {};  // of all conversations (Dataset::Options)
  const bool keep_references = false;
  const std::optional<std::int64_t> teacher_log_probs = {};
  const double teacher_temperature = 1;
  // The tokenizer's chat template, parsed when the first conversation comes. Throws Error(config) when it has none.
  const text::ChatTemplate& chat_template() const;
  // Says once that the template does not end the assistant's turns with a special token.
  void note_open_turns(const std::string& place) const;

 private:
  mutable std::once_flag once_, noted_;
  mutable std::shared_ptr<const text::ChatTemplate> chat_;
};

struct RecordTokens : Tokens {
  std::vector<std::size_t> seams = {};  // which of them hold characters of both a prompt and its completion
  std::optional<DocLabel> label = {};
  std::optional<DocTags> tags = {};  // then labels[i] counts its names
  std::optional<QuestionDoc> question = {};  // what a window of a question is to keep
  Role role = Role::none;
  std::optional<std::uint32_t> characters = {};  // of an answer to choose from
  std::vector<PlacedPicture> pictures = {};
  std::optional<DocTeacher> teacher = {};
  std::vector<std::string> references = {};    // Dataset::references; none: they are not kept
  std::vector<RecordTokens> companions = {};  // the other documents of the record: rejected, where this is chosen
};

}  // namespace hone::data
