// hone generate --chat: prompts as conversations, through the tokenizer's chat template.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/place.h"
#include "hone/generate.h"
#include "hone/pictures.h"
#include "hone/text.h"
#include "text/chat/chat_template.h"

namespace hone::cli {

class ChatPrompts {
 public:
  // system: for conversations that do not begin with a system message of their own; "" = none. variables: of the
  // template, a JSON object; "" = none. Throws Error(config) when the tokenizer has no template.
  // reads_pictures: the model does.
  ChatPrompts(std::shared_ptr<const Tokenizer> tokenizer, std::string system, std::string variables,
              bool reads_pictures = false);

  // Pictures come before the text.
  Conversation of_user(const std::string& text, std::size_t pictures = 0) const;
  // An object of a file of prompts: messages (or conversations, or a prompt of messages); beside them system, tools,
  // documents, chat_template_kwargs. Answers at its end are left out: they are what is asked for.
  static bool is_conversation(const nlohmann::ordered_json& row, const data::Place& place);
  // pictures: the object's, where the model reads some.
  Conversation of_row(const nlohmann::ordered_json& row, const data::Place& place,
                      std::vector<PictureFile>& pictures) const;
  // The same of an object whose prompt is a text.
  Conversation of_prompt(const std::string& text, const nlohmann::ordered_json& row, const data::Place& place,
                         std::vector<PictureFile>& pictures) const;
  // Of an object's field images, or image.
  static std::vector<PictureFile> pictures_of(const nlohmann::ordered_json& row, const data::Place& place);
  // Without a chat nothing reads the fields beside the prompt: Error(data) where one says something.
  static void refuse_fields(const nlohmann::ordered_json& row, const data::Place& place);
  // Names of an object's fields that are none of a prompt.
  static void add_unread(const nlohmann::ordered_json& row, bool reads_pictures, std::set<std::string>& names);
  // One more round: what was answered, and what the user says next.
  static void append(Conversation& conversation, const std::string& answer, const std::string& next);

  // Which field of an object says what is asked: messages, conversations, prompt or text; "" = none. Error(data): two.
  static std::string field_of(const nlohmann::ordered_json& row, const data::Place& place);
  static bool asks(const nlohmann::ordered_json& row);  // one of these fields says something

  // What the model continues, up to where its answer begins.
  std::string text_of(const Conversation& conversation) const;
  // The same of an object's messages, its last answers too, with none begun behind them.
  std::string whole_text_of(const nlohmann::ordered_json& row, const data::Place& place) const;
  // What ends the assistant's turn in the template, which need not be the tokenizer's eos, ends an answer, too.
  void add_turn_end(GenerateConfig& config) const;

 private:
  Conversation with_fields(const nlohmann::ordered_json& row, nlohmann::ordered_json messages,
                           const data::Place& place, std::vector<PictureFile>& pictures) const;
  std::string printed(const Conversation& conversation, bool begins_answer) const;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const text::ChatTemplate> template_;
  std::string system_, variables_;
  bool reads_pictures_;
};

}  // namespace hone::cli
