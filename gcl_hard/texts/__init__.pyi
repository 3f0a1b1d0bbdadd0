from gcl_hard.texts.loss import TextLoss as TextLoss
