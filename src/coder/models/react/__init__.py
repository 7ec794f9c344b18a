"""The ReAct dialect: tool calls as XML in the model's text."""
