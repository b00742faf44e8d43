"""What would go wrong with a blueprint, or be a surprise, before anybody runs it?"""
